"""The one data model: a Recording is columns of steps, series of facts, checks, phases and a few views.

A simulation writes through a `Recorder`; everything else reads the `Recording`, also while it grows: data is published
before the step count, so a reader that stays below ``len(recording)`` never sees half a step.
"""

from core.recording.difference import first_difference
from core.recording.facts import Check, Fact, FactKind, FactSeries
from core.recording.parts import Panel, Phase, Template, Word
from core.recording.recorder import Recorder
from core.recording.recording import Recording

__all__ = ["Check", "Fact", "FactKind", "FactSeries", "Panel", "Phase", "Recorder", "Recording", "Template", "Word", "first_difference"]
