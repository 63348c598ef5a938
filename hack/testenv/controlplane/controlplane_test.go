package controlplane

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// binary returns the program under test, built where it is not yet cached. These tests run it as users do: they link
// nothing of Kubernetes themselves.
func binary(t *testing.T) string {
	t.Helper()
	build := exec.Command("../build.sh")
	build.Stderr = os.Stderr
	path, err := build.Output()
	if err != nil {
		t.Fatalf("build.sh: %v", err)
	}
	return strings.TrimSpace(string(path))
}

type environment struct {
	ready
	command *exec.Cmd
	stdin   io.WriteCloser
	lines   *bufio.Reader
	client  *http.Client
}

func startEnvironment(t *testing.T, flags ...string) *environment {
	t.Helper()
	started := &environment{command: exec.Command(binary(t), append([]string{"start"}, flags...)...)}
	started.command.Stderr = os.Stderr
	var err error
	if started.stdin, err = started.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := started.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := started.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		started.stdin.Close()
		_ = started.command.Wait() // a test may have waited already
	})
	started.lines = bufio.NewReader(stdout)
	line, err := started.lines.ReadBytes('\n')
	if err != nil {
		t.Fatalf("no line on standard output: %v", err)
	}
	if err := json.Unmarshal(line, &started.ready); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	ca, err := os.ReadFile(started.CA)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(ca)
	started.client = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}}
	return started
}

// call returns status and body of a request to the API server.
func (e *environment) call(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, e.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+e.Token)
	request.Header.Set("Content-Type", "application/json")
	response, err := e.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func (e *environment) create(t *testing.T, path, body string) {
	t.Helper()
	if status, answer := e.call(t, http.MethodPost, path, body); status != http.StatusCreated {
		t.Fatalf("POST %s: %d %s", path, status, answer)
	}
}

// tell sends a command and returns its reply.
func (e *environment) tell(t *testing.T, line string) reply {
	t.Helper()
	if _, err := fmt.Fprintln(e.stdin, line); err != nil {
		t.Fatal(err)
	}
	text, err := e.lines.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var answer reply
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return answer
}

// eventually polls for up to five minutes, which a busy machine may need.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 3000 {
		if holds() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("not after five minutes: %s", what)
}

// runs tells whether a process lives; one that has ended and was not waited for does not.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return len(state) > 0 && state[0] != 'Z'
}

const (
	node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"capacity":{"cpu":"4","memory":"8Gi","pods":"10"},` +
		`"allocatable":{"cpu":"4","memory":"8Gi","pods":"10"},"conditions":[{"type":"Ready","status":"True"}]}}`
	pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"schedulerName":%q,` +
		`"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}}`
)

func (e *environment) waitUntilBound(t *testing.T, name string) {
	t.Helper()
	eventually(t, "pod "+name+" is bound to n1", func() bool {
		_, body := e.call(t, http.MethodGet, "/api/v1/namespaces/default/pods/"+name, "")
		return strings.Contains(body, `"nodeName":"n1"`)
	})
}

func TestPodsAreBoundByTheSchedulerWithoutAControllerManager(t *testing.T) {
	environment := startEnvironment(t, "--scheduler")
	environment.create(t, "/api/v1/nodes", node)
	environment.create(t, "/api/v1/namespaces/default/pods", fmt.Sprintf(pod, "web", "default-scheduler"))
	environment.waitUntilBound(t, "web")
}

func TestSchedulerConfigNamesProfiles(t *testing.T) {
	config := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{schedulerName: second}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := startEnvironment(t, "--scheduler", "--scheduler-config", config)
	environment.create(t, "/api/v1/nodes", node)
	environment.create(t, "/api/v1/namespaces/default/pods", fmt.Sprintf(pod, "not-its-own", "default-scheduler"))
	environment.create(t, "/api/v1/namespaces/default/pods", fmt.Sprintf(pod, "its-own", "second"))
	environment.waitUntilBound(t, "its-own")
	if _, body := environment.call(t, http.MethodGet, "/api/v1/namespaces/default/pods/not-its-own", ""); strings.Contains(body, `"nodeName"`) {
		t.Errorf("bound by a scheduler of another name: %s", body)
	}
}

func TestNodesAreTaintedUntilReadyWithTheNodeLifecycle(t *testing.T) {
	environment := startEnvironment(t, "--node-lifecycle")
	environment.create(t, "/api/v1/nodes", node)
	if _, body := environment.call(t, http.MethodGet, "/api/v1/nodes/n1", ""); !strings.Contains(body, "node.kubernetes.io/not-ready") {
		t.Errorf("no taint: %s", body)
	}
}

func TestControllersMakePodsWithServiceAccounts(t *testing.T) {
	environment := startEnvironment(t, "--controller-manager")
	environment.create(t, "/apis/apps/v1/namespaces/default/replicasets", `{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web"},
		"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
		"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	eventually(t, "two pods with a token", func() bool {
		_, body := environment.call(t, http.MethodGet, "/api/v1/namespaces/default/pods", "")
		return strings.Count(body, `"serviceAccountToken"`) == 2
	})
}

func TestAComponentIsKilledStartedAndPausedOnCommand(t *testing.T) {
	environment := startEnvironment(t)
	environment.create(t, "/api/v1/nodes", node)
	commands := []string{"kill kube-apiserver"}
	for range 5 {
		commands = append(commands, "stop etcd", "start etcd")
	}
	for _, command := range append(commands, "start kube-apiserver") {
		if answer := environment.tell(t, command); !answer.OK || answer.Command != command {
			t.Fatalf("%s: %+v", command, answer)
		}
	}
	if status, body := environment.call(t, http.MethodGet, "/api/v1/nodes/n1", ""); status != http.StatusOK {
		t.Errorf("the node did not outlive the restarts: %d %s", status, body)
	}

	for _, command := range []string{"pause kube-apiserver", "resume kube-apiserver", "pause kube-apiserver", "pause kube-apiserver"} {
		if answer := environment.tell(t, command); !answer.OK {
			t.Fatalf("%s: %+v", command, answer)
		}
	}
	environment.client.Timeout = time.Second
	if response, err := environment.client.Get(environment.URL + "/readyz"); err == nil {
		response.Body.Close()
		t.Errorf("a paused server answered")
	}
	if answer := environment.tell(t, "resume kube-apiserver"); !answer.OK {
		t.Fatalf("resume: %+v", answer)
	}
	environment.client.Timeout = 2 * time.Minute
	eventually(t, "a resumed server is ready", func() bool {
		status, _ := environment.call(t, http.MethodGet, "/readyz", "")
		return status == http.StatusOK
	})

	for _, command := range []string{"stop kube-scheduler", "start etcd", "burn etcd"} {
		if answer := environment.tell(t, command); answer.OK || answer.Error == "" {
			t.Errorf("%s: %+v", command, answer)
		}
	}
}

func TestNothingIsLeftWhenStandardInputCloses(t *testing.T) {
	environment := startEnvironment(t, "--scheduler", "--controller-manager")
	environment.stdin.Close()
	if err := environment.command.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
	for name, component := range environment.Components {
		if runs(component.PID) {
			t.Errorf("%s still runs", name)
		}
	}
	if _, err := os.Stat(environment.Folder); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", environment.Folder, err)
	}
}

func TestNothingRunsOnWhenTheParentIsKilled(t *testing.T) {
	environment := startEnvironment(t, "--scheduler")
	defer os.RemoveAll(environment.Folder)
	if err := environment.command.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for name, component := range environment.Components {
		eventually(t, name+" ended", func() bool { return !runs(component.PID) })
	}
}

// TestMain makes this binary a test that starts a control plane and hangs, where the next test asks for one.
func TestMain(m *testing.M) {
	program := os.Getenv("TESTENV_HANGING_TEST")
	if program == "" {
		os.Exit(m.Run())
	}
	testenv := exec.Command(program, "start")
	testenv.Stdout = os.Stdout
	if _, err := testenv.StdinPipe(); err != nil {
		panic(err)
	}
	if err := testenv.Run(); err != nil {
		panic(err)
	}
}

func TestNothingIsLeftWhenTheTestIsKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hanging := exec.Command(self)
	hanging.Env = append(os.Environ(), "TESTENV_HANGING_TEST="+binary(t))
	stdout, err := hanging.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hanging.Start(); err != nil {
		t.Fatal(err)
	}
	var started ready
	if err := json.NewDecoder(stdout).Decode(&started); err != nil {
		t.Fatal(err)
	}
	if err := hanging.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = hanging.Wait() // it was killed
	for name, component := range started.Components {
		eventually(t, name+" ended", func() bool { return !runs(component.PID) })
	}
	eventually(t, started.Folder+" is removed", func() bool {
		_, err := os.Stat(started.Folder)
		return os.IsNotExist(err)
	})
}

func TestNothingRunsOnWhenTheParentIsKilledWhileItStarts(t *testing.T) {
	folder := t.TempDir()
	command := exec.Command(binary(t), "start", "--ignore-stdin", "--dir", folder)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var children []string
	eventually(t, "two components are started", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", command.Process.Pid))
		if err != nil {
			t.Skipf("who its children are is not known here: %v", err)
		}
		children = strings.Fields(string(text))
		return len(children) == 2
	})
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // it was killed
	for _, child := range children {
		pid, err := strconv.Atoi(child)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, child+" ended", func() bool { return !runs(pid) })
	}
}

func TestAComponentThatCannotStartSaysWhy(t *testing.T) {
	command := exec.Command(binary(t), "start", "--apiserver-flag=--authorization-mode=Nonsense")
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	output, err := command.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "kube-apiserver ended while starting") || !strings.Contains(string(output), "Nonsense") {
		t.Errorf("%v: %s", err, output)
	}
}

func TestBadFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"start", "--schedular"},
		{"start", "more"},
		{"start", "--timeout=0s"},
		{"start", "--scheduler-config=/nowhere", "--scheduler"},
		{"start", "--scheduler-config=/dev/null"},
		{"run"},
		{"openapi"},
		{"begin"},
	} {
		command := exec.Command(binary(t), args...)
		output, _ := command.CombinedOutput()
		if code := command.ProcessState.ExitCode(); code != 2 || len(output) == 0 {
			t.Errorf("%v: exit code %d: %s", args, code, output)
		}
	}
}

func TestRunGivesACommandAKubectlAndReturnsItsExitCode(t *testing.T) {
	command := exec.Command(binary(t), "run", "--", "sh", "-c", "kubectl get namespace default -o name && kubectl version && exit 7")
	output, _ := command.CombinedOutput()
	if code := command.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"namespace/default", "Server Version: v1."} {
		if !strings.Contains(string(output), want) {
			t.Errorf("no %q in %s", want, output)
		}
	}
}

func TestOpenAPIDocumentsAreWritten(t *testing.T) {
	folder := t.TempDir()
	if output, err := exec.Command(binary(t), "openapi", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for file, schema := range map[string]string{
		"api/v1.json":                               "io.k8s.api.core.v1.Pod",
		"apis/policy/v1.json":                       "io.k8s.api.policy.v1.PodDisruptionBudget",
		"apis/apiextensions.k8s.io/v1.json":         "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
		"apis/admissionregistration.k8s.io/v1.json": "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
	} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Error(err)
			continue
		}
		var document struct {
			Components struct{ Schemas map[string]json.RawMessage }
		}
		if err := json.Unmarshal(text, &document); err != nil || document.Components.Schemas[schema] == nil {
			t.Errorf("%s: no schema %s (%v)", file, schema, err)
		}
	}
}
