package controlplane

import "syscall"

// diesWithParent has the kernel kill the child when the parent ends, by whatever cause. A group of its own keeps a
// terminal's interrupt from it: the parent stops its children itself.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
