package agency

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// object is a JSON object of which agencies, over their versions, also say null or [] when it is empty.
type object[T any] map[string]T

// UnmarshalJSON implements json.Unmarshaler.
func (o *object[T]) UnmarshalJSON(data []byte) error {
	if empty(data) {
		*o = object[T]{}
		return nil
	}
	var all map[string]T
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("reading an object: %w", err)
	}
	*o = all
	return nil
}

// list is a JSON list of which agencies also say null or {} when it is empty.
type list []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *list) UnmarshalJSON(data []byte) error {
	if empty(data) {
		*l = list{}
		return nil
	}
	var all []string
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("reading a list: %w", err)
	}
	*l = all
	return nil
}

func empty(data []byte) bool {
	var packed bytes.Buffer
	if json.Compact(&packed, data) != nil {
		return false
	}
	switch packed.String() {
	case "null", "[]", "{}":
		return true
	}
	return false
}

// factor is a replication factor: a number, or "satellite" for a copy on every server.
type factor int

// UnmarshalJSON implements json.Unmarshaler.
func (f *factor) UnmarshalJSON(data []byte) error {
	if string(data) == `"satellite"` {
		*f = 0
		return nil
	}
	var number int
	if err := json.Unmarshal(data, &number); err != nil {
		return fmt.Errorf("reading a replication factor: %w", err)
	}
	*f = factor(number)
	return nil
}
