// Command testenv is a Kubernetes control plane for tests in one program: kube-apiserver, kube-scheduler,
// kube-controller-manager, etcd and kubectl of one release, dispatched by the first argument, and "testenv start", which
// runs them on loopback until its standard input closes. README.md tells how to use it.
package main

import (
	"os"
	"path/filepath"
	"runtime"
	_ "time/tzdata" // CronJob time zones without a zoneinfo folder

	"berth.sh/hack/testenv/controlplane"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// programs are what this binary can be. Each reads os.Args, whose first is the program's name, and returns its exit code.
var programs = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kubectl":                 runKubectl,
}

func main() {
	// A link or copy with a program's name is that program, as for busybox.
	if program, known := programs[filepath.Base(os.Args[0])]; known {
		run(program)
	}
	if len(os.Args) > 1 {
		if program, known := programs[os.Args[1]]; known {
			os.Args = os.Args[1:]
			run(program)
		}
	}
	os.Exit(controlplane.Main(os.Args[1:]))
}

func run(program func() int) {
	// Only the control plane's own work is bound to the main thread.
	runtime.UnlockOSThread()
	os.Exit(program())
}

func runKubectl() int {
	logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)) //nolint:errcheck // an unreadable -v is reported by the command
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints and exits
	}
	return 0
}
