//! A whole cluster in one process: API server, controllers, stand-in kubelets, a fake cloud and Berth.
