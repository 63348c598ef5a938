//! What a cloud is to Berth: the CloudProvider trait, its errors, and a conformance suite.
