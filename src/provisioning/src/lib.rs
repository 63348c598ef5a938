//! Packing, the slot ledger: which nodes do we launch?
