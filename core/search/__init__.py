"""Find and run-until over the columns of a recording: instant at a million steps, no title is formatted."""

from core.search.conditions import Condition, condition
from core.search.find import Found, find
from core.search.forms import examples, nothing
from core.search.tags import tag_mask
from core.search.titles import title_mask

__all__ = ["Condition", "Found", "condition", "examples", "find", "nothing", "tag_mask", "title_mask"]
