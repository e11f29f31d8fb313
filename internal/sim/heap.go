package sim

// heap is a binary heap; the least element by less is at the top. The standard
// library's boxes every element, which a forecast of many thousand pods would feel.
type heap[T any] struct {
	less  func(a, b *T) bool
	items []T
}

func (h *heap[T]) push(item T) {
	h.items = append(h.items, item)
	at := len(h.items) - 1
	for at > 0 {
		parent := (at - 1) / 2
		if !h.less(&h.items[at], &h.items[parent]) {
			return
		}
		h.items[at], h.items[parent] = h.items[parent], h.items[at]
		at = parent
	}
}

// pop removes the top; the heap must not be empty.
func (h *heap[T]) pop() T {
	top := h.items[0]
	last := len(h.items) - 1
	h.items[0] = h.items[last]
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	h.sink()
	return top
}

// sink restores the order after the top has become greater.
func (h *heap[T]) sink() {
	at := 0
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(h.items); child++ {
			if h.less(&h.items[child], &h.items[least]) {
				least = child
			}
		}
		if least == at {
			return
		}
		h.items[at], h.items[least] = h.items[least], h.items[at]
		at = least
	}
}
