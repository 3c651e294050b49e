# SPDX-License-Identifier: Apache-2.0
"""A stand-in for opentelemetry.sdk.metrics.export, which Debian 12 does not have: the classes that an exporter sees."""
from dataclasses import dataclass
from enum import Enum, IntEnum


class AggregationTemporality(IntEnum):
    UNSPECIFIED = 0
    DELTA = 1
    CUMULATIVE = 2


class MetricExportResult(Enum):
    SUCCESS = 0
    FAILURE = 1


@dataclass(frozen=True)
class NumberDataPoint:
    attributes: dict
    start_time_unix_nano: int
    time_unix_nano: int
    value: float


@dataclass(frozen=True)
class HistogramDataPoint:
    attributes: dict
    start_time_unix_nano: int
    time_unix_nano: int
    count: int
    sum: float
    bucket_counts: list
    explicit_bounds: list
    min: float
    max: float


@dataclass(frozen=True)
class Sum:
    data_points: list
    aggregation_temporality: int
    is_monotonic: bool


@dataclass(frozen=True)
class Gauge:
    data_points: list


@dataclass(frozen=True)
class Histogram:
    data_points: list
    aggregation_temporality: int


@dataclass(frozen=True)
class ExponentialHistogram:
    data_points: list
    aggregation_temporality: int


class MetricExporter:
    def __init__(self, preferred_temporality=None, preferred_aggregation=None):
        self._preferred_temporality, self._preferred_aggregation = preferred_temporality, preferred_aggregation
