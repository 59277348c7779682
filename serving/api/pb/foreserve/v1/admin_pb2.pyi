from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ListDevicesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AddDevicesRequest(_message.Message):
    __slots__ = ("device",)
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    device: str
    def __init__(self, device: _Optional[str] = ...) -> None: ...

class DrainDeviceRequest(_message.Message):
    __slots__ = ("index",)
    INDEX_FIELD_NUMBER: _ClassVar[int]
    index: int
    def __init__(self, index: _Optional[int] = ...) -> None: ...

class ListFaultsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InjectFaultRequest(_message.Message):
    __slots__ = ("fault",)
    FAULT_FIELD_NUMBER: _ClassVar[int]
    fault: str
    def __init__(self, fault: _Optional[str] = ...) -> None: ...

class ClearFaultRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("index", "system", "hardware", "draft", "state", "requests_in_flight", "kv_capacity_tokens", "faults")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    HARDWARE_FIELD_NUMBER: _ClassVar[int]
    DRAFT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    KV_CAPACITY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    index: int
    system: str
    hardware: str
    draft: str
    state: str
    requests_in_flight: int
    kv_capacity_tokens: int
    faults: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, index: _Optional[int] = ..., system: _Optional[str] = ..., hardware: _Optional[str] = ..., draft: _Optional[str] = ..., state: _Optional[str] = ..., requests_in_flight: _Optional[int] = ..., kv_capacity_tokens: _Optional[int] = ..., faults: _Optional[_Iterable[str]] = ...) -> None: ...

class DeviceList(_message.Message):
    __slots__ = ("devices",)
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    devices: _containers.RepeatedCompositeFieldContainer[Device]
    def __init__(self, devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ...) -> None: ...

class Fault(_message.Message):
    __slots__ = ("id", "fault", "active_on")
    ID_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_ON_FIELD_NUMBER: _ClassVar[int]
    id: int
    fault: str
    active_on: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, id: _Optional[int] = ..., fault: _Optional[str] = ..., active_on: _Optional[_Iterable[int]] = ...) -> None: ...

class FaultList(_message.Message):
    __slots__ = ("faults",)
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    faults: _containers.RepeatedCompositeFieldContainer[Fault]
    def __init__(self, faults: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ...) -> None: ...
