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

// setSpace makes one file of amount MiB. It is written, not truncated to size: a sparse file takes no space.
func (d *disk) setSpace(dir string, amount int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	file, err := os.Create(filepath.Join(cmp.Or(dir, os.TempDir()), "space"))
	if err != nil {
		return fmt.Errorf("taking disk space: %w", err)
	}
	chunk := make([]byte, mib)
	for range amount {
		if _, err := file.Write(chunk); err != nil {
			file.Close()
			return fmt.Errorf("taking disk space: %w", err)
		}
	}
	return file.Close()
}

// setInodes makes count empty files.
func (d *disk) setInodes(dir string, count int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	folder := filepath.Join(cmp.Or(dir, os.TempDir()), "inodes")
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("giving back inodes: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("taking inodes: %w", err)
	}
	for i := range count {
		if err := os.WriteFile(filepath.Join(folder, strconv.Itoa(i)), nil, 0o644); err != nil {
			return fmt.Errorf("taking inodes: %w", err)
		}
	}
	return nil
}
