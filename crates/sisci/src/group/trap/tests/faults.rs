//! Faults that are none of the group's.
