//! How instances of the fake cloud come under a reservation while they run.

use berth_cloudprovider::ReservationAdoption;
use clap::ValueEnum;

#[derive(clap::Args)]
pub(crate) struct AdoptionArgs {
    /// How a running instance comes under a reservation that has free slots
    #[arg(long, value_enum, value_name = "HOW", default_value_t = How::Never)]
    reservation_adoption: How,
}

#[derive(Clone, Copy, ValueEnum)]
enum How {
    /// It cannot: it is replaced by one that is launched on a slot
    Never,
    /// The cloud counts it, if the reservation is open (`matching: Open`)
    Relabel,
    /// The cloud counts it, if it was launched into the group of all reservations
    Group,
}

// === impl AdoptionArgs ===

impl AdoptionArgs {
    pub(crate) const fn adoption(&self) -> ReservationAdoption {
        match self.reservation_adoption {
            How::Never => ReservationAdoption::Never,
            How::Relabel => ReservationAdoption::Relabel,
            How::Group => ReservationAdoption::Group,
        }
    }
}
