package observe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// splitJSON cuts lists into their items, one at a time, so that a dump is never in
// memory as a whole.
func splitJSON(in *bufio.Reader, meter *meter, emit func(item) bool) error {
	s := &jsonSplitter{decoder: json.NewDecoder(in), meter: meter, emit: emit}
	for {
		token, err := s.decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && token != json.Delim('{') {
			err = fmt.Errorf("found %v where an object must begin", token)
		}
		if err == nil {
			err = s.object()
		}
		if errors.Is(err, errStopped) {
			return nil
		}
		if err != nil {
			return s.explain(err)
		}
	}
}

// errStopped ends the reading because the items are not taken any more.
var errStopped = errors.New("stopped")

type jsonSplitter struct {
	decoder *json.Decoder
	meter   *meter
	emit    func(item) bool
	count   int
}

// object reads what follows a '{': a list, or an object that stands alone.
func (s *jsonSplitter) object() error {
	fields := map[string]json.RawMessage{}
	var list bool
	for s.decoder.More() {
		name, err := s.decoder.Token()
		if err != nil {
			return err
		}
		if name == "items" {
			list = true
			err = s.items(typeOf(fields))
		} else {
			var value json.RawMessage
			err = s.decoder.Decode(&value)
			fields[fmt.Sprint(name)] = value
		}
		if err != nil {
			return err
		}
	}
	if _, err := s.decoder.Token(); err != nil {
		return err
	}
	if list {
		return s.send(item{list: typeOf(fields)})
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return s.send(item{text: text})
}

func (s *jsonSplitter) items(list metav1.TypeMeta) error {
	token, err := s.decoder.Token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('[') {
		return fmt.Errorf("items is %v, not an array", token)
	}
	for s.decoder.More() {
		var text json.RawMessage
		if err := s.decoder.Decode(&text); err != nil {
			return err
		}
		if err := s.send(item{text: text, list: list}); err != nil {
			return err
		}
	}
	_, err = s.decoder.Token()
	return err
}

func (s *jsonSplitter) send(i item) error {
	s.meter.next()
	if i.text != nil {
		s.count++
	}
	i.where = position{item: s.count}
	if !s.emit(i) {
		return errStopped
	}
	return nil
}

func (s *jsonSplitter) explain(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the dump: it ends in the middle of object %d: was it cut off?", s.count+1)
	}
	return fmt.Errorf("reading the dump: object %d, near byte %d: not JSON: %w", s.count+1, s.decoder.InputOffset(), err)
}

// typeOf returns what an object says about its type; zero where it says nothing.
func typeOf(fields map[string]json.RawMessage) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: unquoted(fields["kind"]), APIVersion: unquoted(fields["apiVersion"])}
}

func unquoted(value json.RawMessage) string {
	return strings.Trim(string(value), `"`)
}
