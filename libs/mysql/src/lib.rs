//! bloodraven-mysql.
