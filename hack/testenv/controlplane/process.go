package controlplane

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// process is one component: this same program, started with the component's name as its first argument.
type process struct {
	name string
	args []string
	// url is where it serves; healthPath below it answers 200 when it is ready.
	url, healthPath string
	logPath         string

	command *exec.Cmd
	// exit is the end of the present run, which is yet to come while done is open.
	exit *exit
	done chan struct{}
}

// exit tells that one run of a process ended, and how.
type exit struct {
	process *process
	// expected is set before this program itself ends the process, so that its end is no failure.
	expected bool
	state    *os.ProcessState
}

// start begins the process and reports its end to exits. It must be called on the main thread: the kernel kills the
// process when the thread that started it ends, and the main thread ends with the program, however that ends.
func (p *process) start(exits chan<- *exit) error {
	log, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.Command(program, append([]string{p.name}, p.args...)...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = diesWithParent()
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	// Of this run alone: the next may have begun when the end of this one is heard of.
	ended, done := &exit{process: p}, make(chan struct{})
	p.command, p.exit, p.done = command, ended, done
	go func() {
		_ = command.Wait() // the state says more than the error
		ended.state = command.ProcessState
		close(done)
		exits <- ended
	}()
	return nil
}

func (p *process) running() bool {
	if p.command == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends a signal to a running process.
func (p *process) signal(signal syscall.Signal) error {
	if !p.running() {
		return fmt.Errorf("%s is not running", p.name)
	}
	return p.command.Process.Signal(signal)
}

// lastLines returns the end of the component's log, for an error that stands alone.
func (p *process) lastLines() string {
	const size, count = 16 << 10, 20
	log, err := os.Open(p.logPath)
	if err != nil {
		return ""
	}
	defer log.Close()
	if info, err := log.Stat(); err == nil && info.Size() > size {
		if _, err := log.Seek(-size, io.SeekEnd); err != nil {
			return ""
		}
	}
	text, err := io.ReadAll(log)
	if err != nil {
		return ""
	}
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
