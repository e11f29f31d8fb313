package evidence

import (
	"fmt"
	"sync"

	"usher.sh/usher/internal/system"
)

const (
	// DefaultMemory is for all evidence together, that which is kept and that which is being made, in bytes: with it a manager of
	// a cluster of 20,000 pods stays well below the limit in config/manager.
	DefaultMemory = 160 << 20
	// smallest is what each namespace may have whatever the others have taken.
	smallest = 1 << 20
)

// budget shares memory out: at most half of it to one namespace, so that the policies of one tenant refuse each other and nobody
// else's. It may be used by several goroutines at once.
type budget struct {
	total int64

	mu   sync.Mutex
	used int64
	by   map[string]int64
}

func newBudget(total int64) *budget {
	if total <= 0 {
		total = DefaultMemory
	}
	return &budget{total: total, by: map[string]int64{}}
}

func (b *budget) each() int64 { return max(b.total/2, smallest) }

func (b *budget) take(namespace string, bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.by[namespace] + bytes
	switch {
	case own <= smallest:
	case own > b.each():
		return fmt.Errorf("%w: what the systems of namespace %s answer needs more than the %d MiB of memory that its policies may have together",
			system.ErrTooLarge, namespace, b.each()>>20)
	case b.used+bytes > b.total:
		return fmt.Errorf("%w: what the systems of all policies answer needs more than the %d MiB of memory that the manager has for it",
			system.ErrTooLarge, b.total>>20)
	}
	b.add(namespace, bytes)
	return nil
}

func (b *budget) give(namespace string, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(namespace, -bytes)
}

func (b *budget) add(namespace string, bytes int64) {
	b.used += bytes
	b.by[namespace] += bytes
	if b.by[namespace] == 0 {
		delete(b.by, namespace)
	}
}

// meter counts one observation.
type meter struct {
	budget    *budget
	namespace string
	// factor is how many times what is taken counts: after a refusal twice, since what fits beside nothing and not beside itself
	// would be refused every other time.
	factor int64

	mu    sync.Mutex
	taken int64
	full  error // the first refusal
}

// Take implements system.Meter.
func (m *meter) Take(bytes int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full == nil {
		m.full = m.budget.take(m.namespace, bytes*m.factor)
	}
	if m.full == nil {
		m.taken += bytes * m.factor
	}
	return m.full
}

// settle gives back what was taken but for what is kept, which is counted anew. An error says that not even that fits.
func (m *meter) settle(kept int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budget.give(m.namespace, m.taken)
	m.taken = 0
	if m.full == nil && kept > 0 {
		if m.full = m.budget.take(m.namespace, kept); m.full == nil {
			m.taken = kept
		}
	}
	return m.full
}
