package controlplane

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
)

// options are what "testenv start" can be told.
type options struct {
	scheduler, controllerManager bool

	apiserverFlags, schedulerFlags, controllerManagerFlags []string

	schedulerConfig   string
	controllers       string
	nodeLifecycle     bool
	authorizationMode string
	featureGates      string
	// serviceAccounts is nil where the default applies: admission of ServiceAccounts where a controller makes them.
	serviceAccounts *bool
	verbosity       int

	dir         string
	keep        bool
	timeout     time.Duration
	ignoreStdin bool
}

// The controllers that a cloud would need to answer, and those that need a kubelet on every node: with these, nodes that a
// test made up become NotReady after 40 seconds and lose their pods.
const (
	cloudControllers = "*,-node-ipam-controller,-node-route-controller,-cloud-node-lifecycle-controller,-service-lb-controller"
	nodeControllers  = ",-node-lifecycle-controller,-taint-eviction-controller"
)

// parseOptions reads the flags of start, run and openapi; what is left are the command's own arguments.
func parseOptions(command string, args []string) (*options, []string, error) {
	parsed := &options{}
	flags := pflag.NewFlagSet("testenv "+command, pflag.ContinueOnError)
	flags.SetInterspersed(command != "run")
	flags.BoolVar(&parsed.scheduler, "scheduler", false, "run kube-scheduler")
	flags.BoolVar(&parsed.controllerManager, "controller-manager", false, "run kube-controller-manager")
	flags.StringArrayVar(&parsed.apiserverFlags, "apiserver-flag", nil, "a flag for kube-apiserver, as --apiserver-flag=--max-requests-inflight=10; may be repeated, and wins over the default")
	flags.StringArrayVar(&parsed.schedulerFlags, "scheduler-flag", nil, "a flag for kube-scheduler")
	flags.StringArrayVar(&parsed.controllerManagerFlags, "controller-manager-flag", nil, "a flag for kube-controller-manager")
	flags.StringVar(&parsed.schedulerConfig, "scheduler-config", "", "a KubeSchedulerConfiguration file; its client connection and leader election are set here")
	flags.StringVar(&parsed.controllers, "controllers", "", "the controllers of kube-controller-manager (default: all but those for a cloud and for the life of nodes)")
	flags.BoolVar(&parsed.nodeLifecycle, "node-lifecycle", false, "nodes are tainted by their conditions, from their creation, and drained without heartbeats; taints are removed by --controller-manager alone")
	flags.StringVar(&parsed.authorizationMode, "authorization-mode", "RBAC", "of kube-apiserver")
	flags.StringVar(&parsed.featureGates, "feature-gates", "", "of all components, as A=true,B=false")
	admission := flags.Bool("service-account-admission", false, "pods get a ServiceAccount and its token, and wait until there is one (default: with --controller-manager)")
	flags.IntVarP(&parsed.verbosity, "verbosity", "v", 1, "of the components' logs")
	flags.StringVar(&parsed.dir, "dir", "", "keep data, logs and credentials in this folder; default a temporary one, removed at the end")
	flags.BoolVar(&parsed.keep, "keep", false, "do not remove the temporary folder")
	flags.DurationVar(&parsed.timeout, "timeout", 5*time.Minute, "give up when the components are not ready by then")
	if command == "start" {
		flags.BoolVar(&parsed.ignoreStdin, "ignore-stdin", false, "stop on a signal alone, not when standard input closes; take no commands")
	}
	if err := flags.Parse(args); err != nil {
		return nil, nil, err
	}
	if flags.Changed("service-account-admission") {
		parsed.serviceAccounts = admission
	}
	if parsed.controllers == "" {
		parsed.controllers = cloudControllers
		if !parsed.nodeLifecycle {
			parsed.controllers += nodeControllers
		}
	}
	if parsed.timeout <= 0 {
		return nil, nil, fmt.Errorf("--timeout: expected a duration above 0, got %s", parsed.timeout)
	}
	if parsed.schedulerConfig != "" {
		if !parsed.scheduler {
			return nil, nil, fmt.Errorf("--scheduler-config is for kube-scheduler: add --scheduler")
		}
		if _, err := os.Stat(parsed.schedulerConfig); err != nil {
			return nil, nil, fmt.Errorf("--scheduler-config: %w", err)
		}
	}
	return parsed, flags.Args(), nil
}

func (o *options) admitServiceAccounts() bool {
	if o.serviceAccounts != nil {
		return *o.serviceAccounts
	}
	return o.controllerManager
}
