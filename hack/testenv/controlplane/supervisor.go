package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// errStopped ends a start that is no longer wanted: a signal came, or standard input closed.
var errStopped = errors.New("stopped")

// supervisor owns the components of one control plane. All its methods run on the main thread (process.start says why).
type supervisor struct {
	options     *options
	folder      *folder
	credentials *credentials
	layout      *layout
	client      *http.Client

	exits chan *exit
	// stop is closed by a signal, or when the owner is gone.
	stop <-chan struct{}
}

// newSupervisor starts the components and returns when all are ready. On an error nothing is left behind.
func newSupervisor(options *options, stop <-chan struct{}) (_ *supervisor, err error) {
	folder, err := openFolder(options.dir, options.keep)
	if err != nil {
		return nil, err
	}
	s := &supervisor{options: options, folder: folder, exits: make(chan *exit, 16), stop: stop}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.credentials, err = newCredentials(folder.path); err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(s.credentials.caPEM)
	s.client = &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}},
	}

	deadline := time.Now().Add(options.timeout)
	for attempt := 1; ; attempt++ {
		if s.layout, err = newLayout(options, folder, s.credentials); err != nil {
			return nil, err
		}
		if err = s.startAll(deadline); err == nil {
			return s, nil
		}
		// Somebody took a port between its choice and its use.
		if attempt == 3 || errors.Is(err, errStopped) || !strings.Contains(err.Error(), "address already in use") {
			return nil, err
		}
		s.killAll()
		if err := os.RemoveAll(folder.file("etcd")); err != nil {
			return nil, err
		}
	}
}

func (s *supervisor) startAll(deadline time.Time) error {
	for _, process := range []*process{s.layout.etcd, s.layout.apiserver} {
		if err := s.startReady(process, deadline); err != nil {
			return err
		}
	}
	// The system's namespaces are made after the server is ready; "default" comes last.
	if err := s.wait(s.layout.apiserver, "/api/v1/namespaces/default", deadline); err != nil {
		return err
	}
	clients := s.layout.all()[2:]
	for _, process := range clients {
		if err := process.start(s.exits); err != nil {
			return err
		}
	}
	for _, process := range clients {
		if err := s.wait(process, process.healthPath, deadline); err != nil {
			return err
		}
	}
	if s.options.controllerManager && s.options.admitServiceAccounts() {
		return s.wait(s.layout.apiserver, "/api/v1/namespaces/default/serviceaccounts/default", deadline)
	}
	return nil
}

func (s *supervisor) startReady(process *process, deadline time.Time) error {
	if err := process.start(s.exits); err != nil {
		return err
	}
	return s.wait(process, process.healthPath, deadline)
}

// wait returns when path at the process answers 200.
func (s *supervisor) wait(process *process, path string, deadline time.Time) error {
	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	answer := errors.New("not asked yet")
	for {
		select {
		case <-s.stop:
			return errStopped
		case exit := <-s.exits:
			if !exit.expected {
				return fmt.Errorf("%s ended while starting: %s; the end of its log:\n%s", exit.process.name, exit.state, exit.process.lastLines())
			}
		case <-timeout.C:
			return fmt.Errorf("%s was not ready within %s: GET %s: %w; the end of its log:\n%s",
				process.name, s.options.timeout, path, answer, process.lastLines())
		case <-next.C:
			if _, answer = s.get(process.url + path); answer == nil {
				return nil
			}
			next.Reset(50 * time.Millisecond)
		}
	}
}

// get returns the body of an answer of 200, asked for as the admin.
func (s *supervisor) get(url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.credentials.admin.token)
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body[:min(len(body), 2000)])))
	}
	return body, nil
}

// killAll ends every component at once. Nothing is worth a graceful end: the data goes too.
func (s *supervisor) killAll() {
	if s.layout == nil {
		return
	}
	for _, process := range s.layout.all() {
		if process.exit != nil {
			process.exit.expected = true
		}
		if process.running() {
			_ = process.command.Process.Kill() // it may have ended by itself meanwhile
		}
	}
	for _, process := range s.layout.all() {
		if process.command != nil {
			<-process.done
		}
	}
}

func (s *supervisor) close() {
	s.killAll()
	s.folder.close()
}

// terminate asks a component to end, and kills it when it has not within half a minute.
func (s *supervisor) terminate(process *process, signal syscall.Signal) error {
	if !process.running() {
		return fmt.Errorf("%s is not running", process.name)
	}
	process.exit.expected = true
	if err := process.signal(signal); err != nil {
		return err
	}
	// A paused process takes no signal but SIGKILL until it goes on.
	_ = process.signal(syscall.SIGCONT)
	select {
	case <-process.done:
	case <-time.After(30 * time.Second):
		_ = process.command.Process.Kill()
		<-process.done
	}
	return nil
}
