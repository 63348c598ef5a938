//! `berth catalog --provider aws` against EC2 on loopback (`hack/ec2`): what is put in comes out, and what fails says why.
#![cfg(feature = "aws")]
#![allow(clippy::unwrap_used, reason = "tests stop at what they did not expect; clippy looks only into test functions")]

mod account;
mod blueprint;
mod emulator;
mod facts;
mod failures;
mod put;
