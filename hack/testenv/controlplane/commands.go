package controlplane

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// readCommands sends each line of input, and closes the channel and calls ended at its end.
func readCommands(input io.Reader, ended func()) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		defer ended()
		scanner := bufio.NewScanner(input)
		for scanner.Scan() {
			if line := strings.TrimSpace(scanner.Text()); line != "" {
				lines <- line
			}
		}
	}()
	return lines
}

// reply is the line that answers a command.
type reply struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Error   string `json:"error,omitempty"`
}

// serve carries out commands until it is told to stop or a component ends by itself, which is an error.
func (s *supervisor) serve(commands <-chan string) error {
	for {
		select {
		case <-s.stop:
			return nil
		case exit := <-s.exits:
			if !exit.expected {
				return fmt.Errorf("%s ended by itself: %s; the end of its log:\n%s", exit.process.name, exit.state, exit.process.lastLines())
			}
		case line, open := <-commands:
			if !open {
				commands = nil // the end of input also closed s.stop, where it is to
				continue
			}
			answer := reply{Command: line, OK: true}
			if err := s.command(line); err != nil {
				answer.OK, answer.Error = false, err.Error()
			}
			if err := printJSON(answer); err != nil {
				return nil // nobody reads on
			}
		}
	}
}

// command carries out one line: stop, kill, start, pause or resume, and the name of a component.
func (s *supervisor) command(line string) error {
	verb, name, _ := strings.Cut(line, " ")
	var chosen *process
	for _, process := range s.layout.all() {
		if process.name == strings.TrimSpace(name) {
			chosen = process
		}
	}
	if chosen == nil {
		return fmt.Errorf("expected a command and a component of this control plane, as \"stop kube-apiserver\", got %q", line)
	}
	switch verb {
	case "stop":
		return s.terminate(chosen, syscall.SIGTERM)
	case "kill":
		return s.terminate(chosen, syscall.SIGKILL)
	case "start":
		if chosen.running() {
			return fmt.Errorf("%s is running", chosen.name)
		}
		return s.startReady(chosen, time.Now().Add(s.options.timeout))
	case "pause":
		if err := chosen.signal(syscall.SIGSTOP); err != nil {
			return err
		}
		return chosen.waitUntilPaused()
	case "resume":
		return chosen.signal(syscall.SIGCONT)
	default:
		return fmt.Errorf("expected stop, kill, start, pause or resume, got %q", verb)
	}
}

func printJSON(value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}
