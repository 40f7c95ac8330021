//! Many stores, many threads, many changes.
