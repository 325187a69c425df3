"""Tasks of the fake step kind: some steps that say a word each."""

from typing import Any

from hostler.catalog.definition import StepTemplate
from hostler.catalog.manifest import Catalog
from support import builders, fake_kind
from support.keys import Keys

WORDS = {"type": "object", "additionalProperties": False, "properties": {"word": {"type": "string"}}}


def say(step_id: str, word: str = "", **more: Any) -> StepTemplate:
    return StepTemplate(id=step_id, kind=fake_kind.NAME, params={"word": word or step_id}, **more)


def catalog_of(*steps: StepTemplate, **more: Any) -> Any:
    """For `support.agent.core(catalog=...)`."""

    def make(keys: Keys) -> Catalog:
        return builders.catalog(keys, builders.definition(*steps, inputs=WORDS, **more))

    return make


THREE = catalog_of(say("one"), say("two"), say("three"))
