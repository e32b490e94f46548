"""Flags of verbs that read a log."""

from typing import TYPE_CHECKING

from actionless.cli.flags import Flags, flags_class
from actionless.data.options import ReadOptions, read_options

if TYPE_CHECKING:
    ReadFlags = Flags
else:
    ReadFlags = flags_class(read_options(), {"": ReadOptions.__doc__})
