package observe

import (
	"fmt"
	"runtime"
)

// batchSize is how many items one goroutine decodes at a time.
const batchSize = 256

// batch is a run of items and, once done is closed, what became of them.
type batch struct {
	items []item
	found []found
	err   error
	done  chan struct{}
}

// decodeAll decodes items on all processors and hands them on in their order.
func decodeAll(split func(emit func(item) bool) error, take func(found)) error {
	workers := runtime.GOMAXPROCS(0)
	order := make(chan *batch, 2*workers)
	slots := make(chan struct{}, workers)
	stop := make(chan struct{})
	defer func() {
		close(stop)
		for range order {
		}
	}()
	go func() {
		defer close(order)
		order <- readAll(split, func(b *batch) bool {
			select {
			case <-stop:
				return false
			case order <- b:
			}
			slots <- struct{}{}
			go func() {
				defer func() { <-slots }()
				b.decode()
			}()
			return true
		})
	}()
	for b := range order {
		<-b.done
		for _, f := range b.found {
			take(f)
		}
		if b.err != nil {
			return b.err
		}
	}
	return nil
}

// readAll cuts the items into batches. The last one, which holds the error that ended
// the reading, is returned.
func readAll(split func(emit func(item) bool) error, start func(*batch) bool) *batch {
	open := &batch{done: make(chan struct{})}
	err := split(func(i item) bool {
		open.items = append(open.items, i)
		if len(open.items) < batchSize {
			return true
		}
		full := open
		open = &batch{done: make(chan struct{})}
		return start(full)
	})
	open.decode()
	if open.err == nil {
		open.err = err
	}
	return open
}

func (b *batch) decode() {
	defer close(b.done)
	for i := range b.items {
		f, err := b.items[i].decode()
		if err != nil {
			b.err = fmt.Errorf("reading the dump: %s: %w", b.items[i].where, err)
			return
		}
		b.found = append(b.found, f...)
	}
	b.items = nil
}
