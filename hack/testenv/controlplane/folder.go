package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	folderPattern = "berth-testenv-"
	// keepMark is a file in folders that were kept on purpose.
	keepMark = "keep"
)

// folder is where a control plane keeps its files. Its lock tells other starts that it is in use.
type folder struct {
	path   string
	remove bool
	lock   *os.File
}

func openFolder(given string, keep bool) (*folder, error) {
	opened := &folder{path: given}
	if given == "" {
		removeAbandoned()
		path, err := os.MkdirTemp("", folderPattern)
		if err != nil {
			return nil, err
		}
		opened.path, opened.remove = path, !keep
	} else if err := os.MkdirAll(given, 0o700); err != nil {
		return nil, err
	}
	var err error
	if opened.path, err = filepath.Abs(opened.path); err != nil {
		return nil, err
	}
	opened.lock, err = os.OpenFile(opened.file("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(opened.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%s is in use by another control plane: %w", opened.path, err)
	}
	if keep {
		return opened, os.WriteFile(opened.file(keepMark), nil, 0o600)
	}
	return opened, nil
}

func (f *folder) file(name string) string {
	return filepath.Join(f.path, name)
}

func (f *folder) close() {
	if f.remove {
		os.RemoveAll(f.path)
	}
	f.lock.Close()
}

// removeAbandoned removes the temporary folders of starts that were killed: nobody holds their lock.
func removeAbandoned() {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), folderPattern+"*", "lock"))
	for _, path := range found {
		if _, err := os.Stat(filepath.Join(filepath.Dir(path), keepMark)); err == nil {
			continue
		}
		// One that has just been made may not be locked yet.
		if info, err := os.Stat(path); err != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := os.OpenFile(path, os.O_RDWR, 0o600)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(filepath.Dir(path))
		}
		lock.Close()
	}
}
