"""Writes `wire.lock`: every message field, enum value and method of `hostler.v1`, one a line."""

from pathlib import Path

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor

from hostler.v1 import envelope_pb2, node_pb2, report_pb2, task_pb2

LOCK = Path(__file__).parents[1] / "architecture" / "wire.lock"
_TYPES = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def published() -> list[str]:
    lines: list[str] = []
    for module in (envelope_pb2, task_pb2, report_pb2, node_pb2):
        lines += _of_file(module.DESCRIPTOR)
    return sorted(lines)


def _of_file(file: FileDescriptor) -> list[str]:
    lines = [line for message in file.message_types_by_name.values() for line in _of_message(message)]
    for enum in file.enum_types_by_name.values():
        lines += [f"{enum.full_name} {value.name} {value.number}" for value in enum.values]
    for service in file.services_by_name.values():
        lines += [
            f"{method.full_name} {method.input_type.full_name} {method.output_type.full_name}"
            for method in service.methods
        ]
    return lines


def _of_message(message: Descriptor) -> list[str]:
    lines = []
    for field in message.fields:
        kind = field.message_type.full_name if field.message_type else _TYPES[field.type]
        label = "repeated" if field.is_repeated else "singular"
        lines.append(f"{message.full_name} {field.name} {field.number} {kind} {label}")
    for nested in message.nested_types:
        lines += _of_message(nested)
    return lines


if __name__ == "__main__":
    LOCK.write_text("\n".join(published()) + "\n")
