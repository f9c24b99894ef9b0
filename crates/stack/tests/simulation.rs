//! Every scenario of the simulation, with a few seeds each; `TOLLGATE_SIM_SEEDS` says with how many.

mod sim;
