"""What a tenant may leave behind on a host: taken before, taken again after, compared.

    family (pure parser + thin reader) ─▶ Item(kind, name, detail) ─▶ Inventory ─▶ compare ─▶ Finding

An inventory is complete or says where it is not; nothing here decides that "nothing found" means "clean".
"""
