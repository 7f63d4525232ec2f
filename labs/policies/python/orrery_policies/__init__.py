"""Scheduling policies in Python: functions that answer kube-scheduler as an HTTP extender."""

from .extender import Extender
from .objects import Object

__all__ = ["Extender", "Object"]
