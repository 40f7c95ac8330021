//! Text output of reports: general tables, the classic layouts, CSV. All are made from the same
//! report structures as the JSON; nothing here measures or judges.

pub mod csv;
pub mod dma;
pub mod figures;
pub mod intr;
pub mod osu;
pub mod scibench2;
pub mod scipp;
pub mod table;
