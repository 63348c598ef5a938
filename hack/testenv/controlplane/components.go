package controlplane

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// freePorts returns distinct ports of 127.0.0.1 that nobody listens on now. Another program may take one before the
// component does; the start is then tried again with others.
func freePorts(count int) ([]int, error) {
	ports := make([]int, 0, count)
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		// Closed when all are chosen, so that they differ.
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// layout are the components of one control plane, in the order in which they start.
type layout struct {
	etcd, apiserver              *process
	scheduler, controllerManager *process // nil where not asked for
}

func (l *layout) all() []*process {
	processes := []*process{l.etcd, l.apiserver}
	for _, optional := range []*process{l.scheduler, l.controllerManager} {
		if optional != nil {
			processes = append(processes, optional)
		}
	}
	return processes
}

// newLayout chooses ports and writes the files that the components read.
func newLayout(options *options, folder *folder, credentials *credentials) (*layout, error) {
	ports, err := freePorts(5)
	if err != nil {
		return nil, err
	}
	etcdURL, peerURL := "http://"+loopback(ports[0]), "http://"+loopback(ports[1])
	apiserverURL := "https://" + loopback(ports[2])
	serving := []string{
		"--bind-address=127.0.0.1",
		"--tls-cert-file=" + credentials.certFile,
		"--tls-private-key-file=" + credentials.keyFile,
		"--v=" + strconv.Itoa(options.verbosity),
	}
	if options.featureGates != "" {
		serving = append(serving, "--feature-gates="+options.featureGates)
	}

	planned := &layout{
		etcd: &process{
			name: "etcd", url: etcdURL, healthPath: "/health", logPath: folder.file("etcd.log"),
			args: []string{"--data-dir=" + folder.file("etcd"), "--listen-client-url=" + etcdURL, "--listen-peer-url=" + peerURL},
		},
		apiserver: &process{
			name: "kube-apiserver", url: apiserverURL, healthPath: "/readyz", logPath: folder.file("kube-apiserver.log"),
			args: append(apiserverArgs(options, credentials, etcdURL, ports[2]), append(serving, options.apiserverFlags...)...),
		},
	}
	if err := credentials.writeKubeconfig(folder.file("kubeconfig"), apiserverURL, credentials.admin); err != nil {
		return nil, err
	}
	if options.scheduler {
		kubeconfig := folder.file("kube-scheduler.kubeconfig")
		if err := credentials.writeKubeconfig(kubeconfig, apiserverURL, credentials.scheduler); err != nil {
			return nil, err
		}
		config := folder.file("kube-scheduler.yaml")
		if err := writeSchedulerConfig(config, options.schedulerConfig, kubeconfig); err != nil {
			return nil, err
		}
		planned.scheduler = &process{
			name: "kube-scheduler", url: "https://" + loopback(ports[3]), healthPath: "/readyz", logPath: folder.file("kube-scheduler.log"),
			args: append(append(serving,
				"--config="+config,
				"--secure-port="+strconv.Itoa(ports[3]),
				"--authentication-kubeconfig="+kubeconfig,
				"--authorization-kubeconfig="+kubeconfig,
			), options.schedulerFlags...),
		}
	}
	if options.controllerManager {
		kubeconfig := folder.file("kube-controller-manager.kubeconfig")
		if err := credentials.writeKubeconfig(kubeconfig, apiserverURL, credentials.controllerManager); err != nil {
			return nil, err
		}
		planned.controllerManager = &process{
			name: "kube-controller-manager", url: "https://" + loopback(ports[4]), healthPath: "/healthz", logPath: folder.file("kube-controller-manager.log"),
			args: append(append(serving,
				"--kubeconfig="+kubeconfig,
				"--secure-port="+strconv.Itoa(ports[4]),
				"--authentication-kubeconfig="+kubeconfig,
				"--authorization-kubeconfig="+kubeconfig,
				"--leader-elect=false",
				"--controllers="+options.controllers,
				"--service-account-private-key-file="+credentials.serviceAccountKeyFile,
				"--root-ca-file="+credentials.caFile,
				"--kube-api-qps=1000", "--kube-api-burst=2000",
			), options.controllerManagerFlags...),
		}
	}
	return planned, nil
}

func apiserverArgs(options *options, credentials *credentials, etcdURL string, port int) []string {
	args := []string{
		"--etcd-servers=" + etcdURL,
		"--secure-port=" + strconv.Itoa(port),
		// Without it the server looks for the host's address, and fails on a host without a network. Endpoints of a
		// Service cannot be on loopback, so that of "kubernetes" is left out.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.96.0.0/12",
		"--token-auth-file=" + credentials.tokenFile,
		"--authorization-mode=" + options.authorizationMode,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + credentials.serviceAccountKeyFile,
		"--service-account-signing-key-file=" + credentials.serviceAccountKeyFile,
		// A test's own load is not to be queued.
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1000",
		"--allow-privileged=true",
	}
	var without []string
	if !options.admitServiceAccounts() {
		without = append(without, "ServiceAccount")
	}
	if !options.nodeLifecycle {
		// It taints every new node as not ready, for the node-lifecycle-controller to see otherwise.
		without = append(without, "TaintNodesByCondition")
	}
	if len(without) > 0 {
		args = append(args, "--disable-admission-plugins="+strings.Join(without, ","))
	}
	return args
}

// writeSchedulerConfig writes the configuration of kube-scheduler: the given file, or the default profile, with the
// connection to this control plane. The client's rate is that of upstream's scheduler_perf where the file sets none: the
// default of 50 requests a second would be all that a test measures.
func writeSchedulerConfig(path, given, kubeconfig string) error {
	config := map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1",
		"kind":       "KubeSchedulerConfiguration",
	}
	if given != "" {
		text, err := os.ReadFile(given)
		if err != nil {
			return err
		}
		config = map[string]any{}
		if err := yaml.Unmarshal(text, &config); err != nil {
			return fmt.Errorf("%s: %w", given, err)
		}
		if config["kind"] != "KubeSchedulerConfiguration" {
			return fmt.Errorf("%s: kind: expected KubeSchedulerConfiguration, got %v", given, config["kind"])
		}
	}
	connection, _ := config["clientConnection"].(map[string]any)
	if connection == nil {
		connection = map[string]any{"qps": 5000, "burst": 5000}
	}
	connection["kubeconfig"] = kubeconfig
	config["clientConnection"] = connection
	config["leaderElection"] = map[string]any{"leaderElect": false}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
