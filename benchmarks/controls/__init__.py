"""Controls: defenses that hide nothing, in place of the real ones, so that a page which calls them safe is caught."""
