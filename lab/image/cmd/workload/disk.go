package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// disk uses up space and inodes of a folder (default: /tmp, which is the container's writable layer).
type disk struct{ mu sync.Mutex }

// setSpace makes one file of amount MiB, writing at most rate MiB a second (0: at once). It is written, not truncated to
// size: a sparse file takes no space.
func (d *disk) setSpace(dir string, amount, rate int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	file, err := os.Create(filepath.Join(cmp.Or(dir, os.TempDir()), "space"))
	if err != nil {
		return fmt.Errorf("taking disk space: %w", err)
	}
	chunk := make([]byte, mib)
	pace := startPace(rate)
	for range amount {
		if _, err := file.Write(chunk); err != nil {
			file.Close()
			return fmt.Errorf("taking disk space: %w", err)
		}
		pace.wait()
	}
	return file.Close()
}

// setInodes makes count empty files, at most rate a second (0: at once).
func (d *disk) setInodes(dir string, count, rate int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	folder := filepath.Join(cmp.Or(dir, os.TempDir()), "inodes")
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("giving back inodes: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("taking inodes: %w", err)
	}
	pace := startPace(rate)
	for i := range count {
		if err := os.WriteFile(filepath.Join(folder, strconv.Itoa(i)), nil, 0o644); err != nil {
			return fmt.Errorf("taking inodes: %w", err)
		}
		pace.wait()
	}
	return nil
}
