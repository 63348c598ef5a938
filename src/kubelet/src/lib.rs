//! Stand-in kubelets: nodes that register, admit pods and run them through their phases, thousands in one task.
