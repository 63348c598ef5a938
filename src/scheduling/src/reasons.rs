//! Why not: refusals in the field's words, counted by cause.
