package main

import (
	"fmt"
	"sync"
	"syscall"
)

const mib = 1 << 20

// memory holds pages that the kernel counts as this process's. They are mapped, not allocated: giving them back is immediate and
// does not wait for a garbage collector.
type memory struct {
	mu    sync.Mutex
	pages [][]byte // 1 MiB each
}

// set takes or gives back memory until the total is amount MiB, taking at most rate MiB a second (0: at once).
func (m *memory) set(amount, rate int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.pages) > amount {
		last := len(m.pages) - 1
		if err := syscall.Munmap(m.pages[last]); err != nil {
			return fmt.Errorf("giving back memory: %w", err)
		}
		m.pages = m.pages[:last]
	}
	pace := startPace(rate)
	for len(m.pages) < amount {
		if err := m.take(); err != nil {
			return err
		}
		pace.wait()
	}
	return nil
}

// take writes to every page: memory that was never written is not used memory.
func (m *memory) take() error {
	page, err := syscall.Mmap(-1, 0, mib, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return fmt.Errorf("taking memory: %w", err)
	}
	for i := 0; i < mib; i += 4096 {
		page[i] = 1
	}
	m.pages = append(m.pages, page)
	return nil
}
