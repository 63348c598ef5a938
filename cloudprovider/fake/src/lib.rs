//! A cloud in memory; for now its catalogue.
