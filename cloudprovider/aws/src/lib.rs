//! EC2: the catalogue of an account.
