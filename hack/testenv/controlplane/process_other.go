//go:build !linux

package controlplane

import "syscall"

// diesWithParent cannot be asked for here: children outlive a parent that is killed.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// waitUntilPaused has no way to know here.
func (p *process) waitUntilPaused() error { return nil }
