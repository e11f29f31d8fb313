package observe

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// yamlReader reads documents, and of lists each item apart, by their indentation alone. That
// is sound for block style, which is what kubectl writes: what belongs to an item is indented
// deeper than its dash. A YAML parser has a document in memory as a whole, and a dump is one.
type yamlReader struct {
	lines *bufio.Scanner
	meter *meter
	ready []item

	line    int    // of the text, from 1
	rest    []byte // of the document, without its items
	restAt  int    // line at which it begins
	item    []byte
	itemAt  int
	inItems bool
	isList  bool // the document has items
	indent  int  // of the dashes of the items; -1 until the first
	ended   bool
}

func newYAMLReader(in io.Reader, meter *meter) *yamlReader {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 2*maxItem) // the meter ends a longer line
	return &yamlReader{lines: lines, meter: meter}
}

// next returns the next item. Its error is io.EOF after the last.
func (r *yamlReader) next() (item, error) {
	for len(r.ready) == 0 {
		if err := r.step(); err != nil {
			return item{}, err
		}
	}
	first := r.ready[0]
	r.ready = r.ready[1:]
	r.meter.next()
	return first, nil
}

// step reads a line, or the end.
func (r *yamlReader) step() error {
	switch {
	case r.ended:
		return io.EOF
	case r.lines.Scan():
		r.line++
		return r.take(r.lines.Bytes())
	case r.lines.Err() != nil:
		return fmt.Errorf("line %d: %w", r.line, r.lines.Err())
	}
	r.ended = true
	return r.endDocument()
}

func (r *yamlReader) take(line []byte) error {
	text := bytes.TrimLeft(line, " ")
	indent := len(line) - len(text)
	blank := len(bytes.TrimSpace(text)) == 0 || text[0] == '#'
	dash := string(text) == "-" || bytes.HasPrefix(text, []byte("- ")) || bytes.HasPrefix(text, []byte("-\r"))
	switch {
	case isSeparator(line):
		return r.endDocument()
	case r.inItems && dash && (r.indent < 0 || r.indent == indent):
		r.endItem()
		r.indent, r.itemAt = indent, r.line
		r.item = append(append(r.item, line...), '\n')
		r.item[indent] = ' '
	case r.inItems && r.indent >= 0 && (blank || indent > 0 || text[0] == '-'):
		r.item = append(append(r.item, line...), '\n')
	case r.inItems && !blank && indent > 0:
		return fmt.Errorf("line %d: items is not a list", r.line)
	case string(bytes.TrimRight(line, " ")) == "items:":
		r.inItems, r.isList, r.indent = true, true, -1
	default:
		r.inItems = r.inItems && blank
		if len(r.rest) == 0 {
			r.restAt = r.line
		}
		r.rest = append(append(r.rest, line...), '\n')
	}
	return nil
}

func isSeparator(line []byte) bool {
	line = bytes.TrimRight(line, " ")
	return string(line) == "---" || string(line) == "..." || bytes.HasPrefix(line, []byte("--- "))
}

// endDocument reads what a list says about itself. kubectl writes it after the items, so a
// list that does not say it was cut off, and its last item with it.
func (r *yamlReader) endDocument() error {
	text, isList := r.rest, r.isList
	r.rest, r.isList, r.inItems = nil, false, false
	if !isList {
		r.add(text, r.restAt)
		return nil
	}
	var list metav1.TypeMeta
	if err := yaml.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("the list that ends at line %d: %w", r.line, err)
	}
	if list.Kind == "" {
		return fmt.Errorf("the list that ends at line %d has no kind after its items: was it cut off?", r.line)
	}
	r.endItem()
	r.ready = append(r.ready, item{list: list})
	return nil
}

func (r *yamlReader) endItem() {
	r.add(bytes.Clone(r.item), r.itemAt)
	r.item = r.item[:0]
}

func (r *yamlReader) add(text []byte, line int) {
	if len(text) > 0 {
		r.ready = append(r.ready, item{text: text, yaml: true, where: fmt.Sprintf("the object at line %d", line)})
	}
}
