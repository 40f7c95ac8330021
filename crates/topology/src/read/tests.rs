//! Files of all kinds, good and bad.
