//! How good routes are.
