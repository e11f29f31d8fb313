package observe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"
)

// jsonReader reads objects, and of lists each item apart, so that a dump is never in memory
// as a whole.
type jsonReader struct {
	decoder *json.Decoder
	meter   *meter
	count   int // objects read

	fields map[string]json.RawMessage // of the object at hand, without its items; nil between objects
	isList bool                       // it has items
	inside bool                       // the items
	list   metav1.TypeMeta            // what it says of its type before the items
}

func newJSONReader(in io.Reader, meter *meter) *jsonReader {
	return &jsonReader{decoder: json.NewDecoder(in), meter: meter}
}

// next returns the next item. Its error is io.EOF after the last.
func (r *jsonReader) next() (item, error) {
	for {
		i, ok, err := r.step()
		between := r.fields == nil
		switch {
		case between && errors.Is(err, io.EOF):
			return item{}, io.EOF
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
			return item{}, fmt.Errorf("it ends in the middle of object %d: was it cut off?", r.count+1)
		case err != nil:
			return item{}, fmt.Errorf("object %d, near byte %d: not JSON: %w", r.count+1, r.decoder.InputOffset(), err)
		case ok:
			r.meter.next()
			if i.text != nil {
				r.count++
			}
			i.where = fmt.Sprintf("object %d", r.count)
			return i, nil
		}
	}
}

// step reads a token or a value; it reports whether that completes an item.
func (r *jsonReader) step() (item, bool, error) {
	if r.inside && r.decoder.More() {
		var text json.RawMessage
		err := r.decoder.Decode(&text)
		return item{text: text, list: r.list}, true, err
	}
	token, err := r.decoder.Token()
	switch {
	case err != nil:
		return item{}, false, err
	case r.inside:
		r.inside = false
		return item{}, false, nil
	case r.fields != nil && token == json.Delim('}'):
		return r.end()
	case r.fields != nil:
		return item{}, false, r.field(fmt.Sprint(token))
	case token != json.Delim('{'):
		return item{}, false, fmt.Errorf("found %v where an object must begin", token)
	}
	r.fields = map[string]json.RawMessage{}
	return item{}, false, nil
}

// field reads the value of a field, or the beginning of items.
func (r *jsonReader) field(name string) error {
	if name != "items" {
		var value json.RawMessage
		err := r.decoder.Decode(&value)
		r.fields[name] = value
		return err
	}
	token, err := r.decoder.Token()
	if err != nil {
		return err
	}
	if token != nil && token != json.Delim('[') {
		return fmt.Errorf("items is %v, not an array", token)
	}
	r.isList, r.inside = true, token != nil
	r.list, err = typeOf(r.fields)
	return err
}

// end returns an object that stands alone, or the end of a list.
func (r *jsonReader) end() (item, bool, error) {
	fields, isList := r.fields, r.isList
	r.fields, r.isList = nil, false
	if isList {
		list, err := typeOf(fields)
		return item{list: list}, true, err
	}
	text, err := json.Marshal(fields)
	return item{text: text}, true, err
}

// typeOf returns what an object says about its type; zero where it says nothing.
func typeOf(fields map[string]json.RawMessage) (metav1.TypeMeta, error) {
	var kind metav1.TypeMeta
	text, err := json.Marshal(fields)
	if err == nil {
		err = sigsjson.UnmarshalCaseSensitivePreserveInts(text, &kind)
	}
	return kind, err
}
