package policycache

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/internal/system"
)

// needLife is how long it is believed that a policy needs as much memory as its last observation did.
const needLife = 5 * time.Minute

// budget carries out what plan decides. It may be used by several goroutines at once.
type budget struct {
	total int64

	mu     sync.Mutex
	used   int64
	meters map[*meter]bool // those that have or await memory
	freed  chan struct{}   // closed and made anew whenever some is free again
}

func newBudget(total int64) *budget {
	if total <= 0 {
		total = DefaultMemory
	}
	return &budget{total: total, meters: map[*meter]bool{}, freed: make(chan struct{})}
}

// meter counts one observation, and then the evidence that it brought.
type meter struct {
	budget    *budget
	namespace string
	source    types.UID
	need      int64           // what the policy's last observation took; 0: not known
	over      <-chan struct{} // closed when the observation's time has passed
	// revoke breaks the observation off, and drop lets go of the evidence. Both may be called by observations of other policies.
	revoke func(error)
	drop   func()

	// What follows is guarded by the budget's mu.
	taken, awaited int64
	most           int64 // the most that was asked for
	kept           bool  // it counts evidence
	full           error // the first refusal
}

// Take implements system.Meter. It waits where others are being broken off for it, for as long as the observation may take.
func (m *meter) Take(bytes int64) error {
	for {
		freed, err := m.budget.take(m, bytes)
		if freed == nil {
			return err
		}
		select {
		case <-freed:
		case <-m.over:
			return m.budget.late(m)
		}
	}
}

// settle gives back what was taken but for what is kept. An error says that the observation was refused memory, or is now.
func (m *meter) settle(kept int64) error {
	if more := kept - m.budget.has(m); more > 0 {
		_ = m.Take(more) // a refusal is kept, too
	}
	return m.budget.settle(m, kept)
}

// keep says that the observation has become evidence, which may be dropped from now on, and reports whether it may be kept at all.
func (m *meter) keep() bool {
	m.budget.mu.Lock()
	defer m.budget.mu.Unlock()
	m.kept = true
	return m.full == nil
}

// peak is what the policy needs by what is known now.
func (m *meter) peak() int64 {
	m.budget.mu.Lock()
	defer m.budget.mu.Unlock()
	return m.most
}

// take returns a channel where memory will be free soon.
func (b *budget) take(m *meter, bytes int64) (freed <-chan struct{}, err error) {
	freed, gone, err := b.decide(m, bytes)
	for _, other := range gone {
		other()
	}
	return freed, err
}

// decide also returns what has to be called once nothing is locked.
func (b *budget) decide(m *meter, bytes int64) (freed <-chan struct{}, gone []func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.awaited = 0
	if m.full != nil {
		return nil, nil, m.full
	}
	m.most = max(m.most, m.taken+bytes)
	held, of := b.holdings(m)
	plan := ask{namespace: m.namespace, bytes: bytes, rest: m.need - m.taken}.plan(b.total, held)
	if !plan.fits {
		m.full = fmt.Errorf("%w: no memory is free for what the systems of namespace %s answer; its share is %s of the %s that the manager has for what "+
			"all systems answer", system.ErrTooLarge, m.namespace, mebibytes(plan.share), mebibytes(b.total))
		return nil, nil, m.full
	}
	for _, i := range plan.drop {
		gone = append(gone, b.displace(of[i]))
	}
	b.meters[m] = true
	if b.used+bytes > b.total {
		m.awaited = bytes
		return b.freed, gone, nil
	}
	b.used += bytes
	m.taken += bytes
	return nil, gone, nil
}

func (b *budget) holdings(m *meter) ([]holding, []*meter) {
	held, of := make([]holding, 0, len(b.meters)), make([]*meter, 0, len(b.meters))
	for other := range b.meters {
		of = append(of, other)
		held = append(held, holding{
			namespace: other.namespace, bytes: other.taken + other.awaited, kept: other.kept,
			going: other.full != nil, former: other.kept && other.source == m.source,
		})
	}
	return held, of
}

// displace takes memory back. Evidence has none from now on; an observation has it until it has settled.
func (b *budget) displace(m *meter) func() {
	m.full = fmt.Errorf("%w: others need the memory that the systems of namespace %s have above its share of the %s that the manager has for what "+
		"all systems answer", system.ErrTooLarge, m.namespace, mebibytes(b.total))
	if !m.kept {
		full := m.full
		return func() { m.revoke(full) }
	}
	b.give(m, m.taken)
	return m.drop
}

func (b *budget) has(m *meter) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return m.taken
}

func (b *budget) settle(m *meter, kept int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.full != nil {
		kept = 0
	}
	m.awaited = 0
	b.give(m, m.taken-kept)
	return m.full
}

// late is the answer to an observation that has waited for memory until its time had passed.
func (b *budget) late(m *meter) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.awaited = 0
	if m.full == nil {
		m.full = fmt.Errorf("%w: the memory for what the systems of namespace %s answer was not free in time", system.ErrTooLarge, m.namespace)
	}
	return m.full
}

func (b *budget) give(m *meter, bytes int64) {
	b.used -= bytes
	m.taken -= bytes
	if m.taken == 0 && m.awaited == 0 {
		delete(b.meters, m)
	}
	if bytes > 0 {
		close(b.freed)
		b.freed = make(chan struct{})
	}
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.3g MiB", float64(bytes)/(1<<20)) }
