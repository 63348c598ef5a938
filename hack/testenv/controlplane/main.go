// Package controlplane runs the components of a Kubernetes control plane as child processes of this program, on loopback,
// with random ports and tokens, for as long as the test that asked for them lives.
package controlplane

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/component-base/version"
)

func init() {
	// The main goroutine stays on the main thread: process.start says why.
	runtime.LockOSThread()
}

const usage = `testenv runs a Kubernetes control plane for tests.

  testenv start [FLAGS]              run until standard input closes; one JSON line when ready
  testenv run [FLAGS] COMMAND ARG…   run COMMAND with KUBECONFIG set, and a kubectl in its PATH
  testenv openapi [FLAGS] FOLDER     write the OpenAPI v3 documents of kube-apiserver into FOLDER
  testenv version                    the release of Kubernetes
  testenv kube-apiserver|kube-scheduler|kube-controller-manager|etcd|kubectl ARG…

"testenv start --help" lists the flags.
`

// Main runs the command line without the program's name and returns the exit code.
func Main(args []string) int {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	command := args[0]
	var run func(*options, []string) (int, error)
	switch command {
	case "start":
		run = start
	case "run":
		run = runCommand
	case "openapi":
		run = writeOpenAPI
	case "version":
		fmt.Println(version.Get().GitVersion)
		return 0
	case "help", "--help", "-h":
		fmt.Print(usage)
		return 0
	default:
		fmt.Fprintf(os.Stderr, "testenv: unknown command %q\n\n%s", command, usage)
		return 2
	}
	options, rest, err := parseOptions(command, args[1:])
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 2
	}
	code, err := run(options, rest)
	if err != nil && !errors.Is(err, errStopped) {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return max(code, 1)
	}
	return code
}

// stopper is closed once, by whoever is first to want the end.
type stopper struct {
	channel chan struct{}
	once    sync.Once
}

func (s *stopper) stop() {
	s.once.Do(func() { close(s.channel) })
}

// stopOnSignal returns a stopper that a signal to end stops.
func stopOnSignal() *stopper {
	created := &stopper{channel: make(chan struct{})}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		<-signals
		created.stop()
	}()
	return created
}

// ready is the line that says where the control plane is.
type ready struct {
	Version    string                    `json:"version"`
	URL        string                    `json:"url"`
	Token      string                    `json:"token"`
	CA         string                    `json:"ca"`
	Kubeconfig string                    `json:"kubeconfig"`
	Etcd       string                    `json:"etcd"`
	Folder     string                    `json:"folder"`
	Components map[string]readyComponent `json:"components"`
}

type readyComponent struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
	Log string `json:"log"`
}

func (s *supervisor) ready() ready {
	line := ready{
		Version:    version.Get().GitVersion,
		URL:        s.layout.apiserver.url,
		Token:      s.credentials.admin.token,
		CA:         s.credentials.caFile,
		Kubeconfig: s.folder.file("kubeconfig"),
		Etcd:       s.layout.etcd.url,
		Folder:     s.folder.path,
		Components: map[string]readyComponent{},
	}
	for _, process := range s.layout.all() {
		line.Components[process.name] = readyComponent{URL: process.url, PID: process.command.Process.Pid, Log: process.logPath}
	}
	return line
}

func start(options *options, rest []string) (int, error) {
	if len(rest) > 0 {
		return 2, fmt.Errorf("start: unexpected argument %q", rest[0])
	}
	stopper := stopOnSignal()
	var commands <-chan string
	if !options.ignoreStdin {
		commands = readCommands(os.Stdin, stopper.stop)
	}
	s, err := newSupervisor(options, stopper.channel)
	if err != nil {
		return 1, err
	}
	defer s.close()
	if err := printJSON(s.ready()); err != nil {
		return 1, err
	}
	if err := s.serve(commands); err != nil {
		return 1, err
	}
	return 0, nil
}

// runCommand returns the exit code of the command that it runs beside the control plane.
func runCommand(options *options, rest []string) (int, error) {
	if len(rest) == 0 {
		return 2, fmt.Errorf("run: expected a command, as \"testenv run -- kubectl get nodes\"")
	}
	stopper := stopOnSignal()
	s, err := newSupervisor(options, stopper.channel)
	if err != nil {
		return 1, err
	}
	defer s.close()

	// A link by the name of kubectl is kubectl.
	program, err := os.Executable()
	if err != nil {
		return 1, err
	}
	bin := s.folder.file("bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return 1, err
	}
	if err := os.Symlink(program, filepath.Join(bin, "kubectl")); err != nil && !errors.Is(err, os.ErrExist) {
		return 1, err
	}
	if err := os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		return 1, err
	}

	line := s.ready()
	command := exec.Command(rest[0], rest[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Env = append(os.Environ(),
		"KUBECONFIG="+line.Kubeconfig,
		"KUBECACHEDIR="+s.folder.file("kubectl-cache"),
		"TESTENV_URL="+line.URL,
		"TESTENV_TOKEN="+line.Token,
		"TESTENV_CA="+line.CA,
	)
	command.SysProcAttr = diesWithParent()
	// It stays in this program's group: a terminal's interrupt is for it too.
	command.SysProcAttr.Setpgid = false
	if err := command.Start(); err != nil {
		return 1, err
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // the state says more than the error
		close(ended)
	}()
	served := make(chan error, 1)
	go func() { served <- s.serve(nil) }()
	select {
	case <-ended:
		stopper.stop()
		<-served
	case err := <-served:
		_ = command.Process.Signal(syscall.SIGTERM)
		<-ended
		if err != nil {
			return 1, err
		}
	}
	if status, ok := command.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return command.ProcessState.ExitCode(), nil
}
