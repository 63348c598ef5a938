//! API types: NodePool, NodeClaim, NodeOverlay, Reservation, FakeNodeClass; label names, defaults, validation.
