//! How reports look as text: general tables, the classic layouts, CSV. All are made from the same report structures as
//! the JSON; nothing here measures or judges.

pub mod csv;
pub mod figures;
pub mod scipp;
pub mod table;
