package observe

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// splitYAML cuts documents, and the items of lists, out of the text by their
// indentation alone. That is sound for block style, which is what kubectl writes: what
// belongs to an item is indented deeper than its dash. It lets items be parsed apart
// from each other, and none of them be in memory longer than that takes.
func splitYAML(in *bufio.Reader, meter *meter, emit func(item) bool) error {
	s := &yamlSplitter{meter: meter, emit: emit}
	for {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading the dump: line %d: %w", s.line+1, err)
		}
		if len(line) > 0 {
			s.line++
			if !s.take(line) {
				return s.err
			}
		}
		if err != nil {
			s.endDocument()
			return s.err
		}
	}
}

// readLine returns a line with its end. The bytes are good until the next call.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = in.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, err
}

type yamlSplitter struct {
	meter *meter
	emit  func(item) bool
	err   error

	stopped bool // the items are not taken any more

	line    int    // of the text, from 1
	rest    []byte // of the document, without its items
	restAt  int    // line at which it begins
	item    []byte
	itemAt  int
	inItems bool
	list    bool // the document has items
	indent  int  // of the dashes of the items; -1 until the first
}

// take adds a line; it reports whether to go on.
func (s *yamlSplitter) take(line []byte) bool {
	if isSeparator(line) {
		return s.endDocument()
	}
	if s.inItems && s.takeItemLine(line) {
		return !s.stopped
	}
	s.inItems = false
	if string(bytes.TrimRight(line, " \r\n")) == "items:" {
		s.inItems, s.list, s.indent = true, true, -1
		return true
	}
	if len(s.rest) == 0 {
		s.restAt = s.line
	}
	s.rest = append(s.rest, line...)
	return true
}

// takeItemLine adds a line to the items; it reports whether it belongs to them.
func (s *yamlSplitter) takeItemLine(line []byte) bool {
	text := bytes.TrimLeft(line, " ")
	indent := len(line) - len(text)
	blank := len(bytes.TrimSpace(text)) == 0 || text[0] == '#'
	if !blank && indent == 0 && text[0] != '-' {
		return false
	}
	dash := !blank && text[0] == '-' && (len(text) == 1 || bytes.IndexByte([]byte(" \r\n"), text[1]) >= 0)
	if dash && (s.indent < 0 || s.indent == indent) {
		s.indent = indent
		if !s.endItem() {
			return true
		}
		s.itemAt = s.line
		s.item = append(s.item, line...)
		s.item[indent] = ' '
		return true
	}
	if s.indent >= 0 {
		s.item = append(s.item, line...)
	}
	return true
}

func isSeparator(line []byte) bool {
	line = bytes.TrimRight(line, " \r\n")
	return string(line) == "---" || string(line) == "..." || bytes.HasPrefix(line, []byte("--- "))
}

func (s *yamlSplitter) endItem() bool {
	if len(s.item) == 0 {
		return true
	}
	text := bytes.Clone(s.item)
	s.item = s.item[:0]
	return s.send(item{text: text, yaml: true, where: position{line: s.itemAt}})
}

func (s *yamlSplitter) endDocument() bool {
	text, list := bytes.Clone(s.rest), s.list
	s.rest, s.list, s.inItems = s.rest[:0], false, false
	if list {
		return s.endList(text)
	}
	if len(text) == 0 {
		return true
	}
	return s.send(item{text: text, yaml: true, where: position{line: s.restAt}})
}

// endList reads what a list says about itself. kubectl writes it after the items, so a
// list that does not say it was cut off, and its last item with it.
func (s *yamlSplitter) endList(text []byte) bool {
	var list metav1.TypeMeta
	if err := yaml.Unmarshal(text, &list); err != nil {
		s.err = fmt.Errorf("reading the dump: the list that ends at line %d: %w", s.line, err)
		return false
	}
	if list.Kind == "" {
		s.err = fmt.Errorf("reading the dump: the list that ends at line %d has no kind after its items: was it cut off?", s.line)
		return false
	}
	return s.endItem() && s.send(item{list: list})
}

func (s *yamlSplitter) send(i item) bool {
	s.meter.next()
	s.stopped = !s.emit(i)
	return !s.stopped
}
