package testlab

import (
	"strconv"
	"sync/atomic"
)

var counter atomic.Int64

// unique returns a short text that no other call in this binary returns.
func unique() string { return strconv.FormatInt(counter.Add(1), 36) }
