package controlplane

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// diesWithParent has the kernel kill the child when the parent ends, by whatever cause. A group of its own keeps a
// terminal's interrupt from it: the parent stops its children itself.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// waitUntilPaused returns when the last thread has stopped, which the signal does not wait for.
func (p *process) waitUntilPaused() error {
	for p.running() {
		// It is asked without being waited for: its end is for somebody else to hear of.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.command.Process.Pid, &info, unix.WSTOPPED|unix.WNOWAIT|unix.WNOHANG, nil)
		if err != nil && err != unix.EINTR {
			return err
		}
		if info.Signo != 0 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}
