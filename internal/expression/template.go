package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Template is text in which {{expression}} stands for a value. It may be used by several goroutines at once.
type Template struct {
	Text  string
	parts []part
}

// maxExpanded is how many bytes a URL or a body may have.
const maxExpanded = 1 << 20

// part is either text or an expression.
type part struct {
	text       string
	expression *Expression
}

// Template compiles and type-checks a template. Errors are sentences for the author.
func (l *Language) Template(text string) (*Template, error) {
	pieces, err := split(text)
	if err != nil {
		return nil, err
	}
	template := &Template{Text: text}
	for _, piece := range pieces {
		if !piece.code {
			template.parts = append(template.parts, part{text: piece.text})
			continue
		}
		expression, err := l.Limited(piece.text, Dynamic, WordsLimit)
		if err != nil {
			return nil, fmt.Errorf("in {{%s}}: %w", piece.text, err)
		}
		template.parts = append(template.parts, part{expression: expression})
	}
	return template, nil
}

// Expressions are those of the template, in its order.
func (t *Template) Expressions() []*Expression {
	var all []*Expression
	for _, part := range t.parts {
		if part.expression != nil {
			all = append(all, part.expression)
		}
	}
	return all
}

// Sample is the template with one text in place of every value.
func (t *Template) Sample(value string) string {
	var text strings.Builder
	for _, part := range t.parts {
		if part.expression == nil {
			text.WriteString(part.text)
		} else {
			text.WriteString(value)
		}
	}
	return text.String()
}

// Expand prints the values: lists as "a, b, c and 3 more", times in RFC 3339. Every value passes through escape, unless
// that is nil. It fails like Eval.
func (t *Template) Expand(scope *Scope, escape func(string) string) (string, error) {
	return t.expand(scope, func(value any) (string, error) {
		if escape == nil {
			return Print(value), nil
		}
		return escape(Print(value)), nil
	})
}

// ExpandJSON puts every value in as JSON. It fails like Eval.
func (t *Template) ExpandJSON(scope *Scope) (string, error) {
	return t.expand(scope, func(value any) (string, error) {
		if d, ok := value.(time.Duration); ok {
			value = d.String()
		}
		text, err := json.Marshal(value)
		if err != nil {
			return "", fmt.Errorf("the value cannot be written as JSON: %w", err)
		}
		return string(text), nil
	})
}

func (t *Template) expand(scope *Scope, render func(any) (string, error)) (string, error) {
	variables := scope.Variables()
	var text strings.Builder
	for _, part := range t.parts {
		if part.expression == nil {
			text.WriteString(part.text)
			continue
		}
		value, err := part.expression.EvalWith(variables, scope.CostBudget)
		if err != nil {
			return "", fmt.Errorf("{{%s}}: %w", part.expression.Text, err)
		}
		rendered, err := render(value)
		if err != nil {
			return "", fmt.Errorf("{{%s}}: %w", part.expression.Text, err)
		}
		text.WriteString(rendered)
		if text.Len() > maxExpanded {
			return "", fmt.Errorf("its values are longer than %d KiB together", maxExpanded>>10)
		}
	}
	return text.String(), nil
}

// ExpandBrief expands the template for a blocker, which must have words whatever is missing or takes too long.
func (t *Template) ExpandBrief(variables map[string]any, costs *CostBudget) string {
	var text strings.Builder
	for _, part := range t.parts {
		if part.expression == nil {
			text.WriteString(part.text)
			continue
		}
		value, err := part.expression.EvalWith(variables, costs)
		if err != nil {
			text.WriteString("(not known)")
			continue
		}
		text.WriteString(brief(Print(value), maxValue))
	}
	return brief(text.String(), maxMessage)
}

type piece struct {
	text string
	code bool
}

var errUnclosed = errors.New("{{ has no }}")

// split cuts a template into text and expressions.
func split(text string) ([]piece, error) {
	var pieces []piece
	for text != "" {
		before, rest, open := strings.Cut(text, "{{")
		if before != "" {
			pieces = append(pieces, piece{text: before})
		}
		if !open {
			return pieces, nil
		}
		end := closing(rest)
		if end < 0 {
			return nil, errUnclosed
		}
		code := strings.TrimSpace(rest[:end])
		if code == "" {
			return nil, errors.New("{{}} has no expression")
		}
		pieces = append(pieces, piece{text: code, code: true})
		text = rest[end+2:]
	}
	return pieces, nil
}

// closing finds the }} that ends an expression: not one within a string, nor one that ends two objects.
func closing(code string) int {
	depth := 0
	for i := 0; i < len(code); i++ {
		switch code[i] {
		case '"', '\'':
			i = endOfString(code, i)
		case '{':
			depth++
		case '}':
			if depth > 0 {
				depth--
				continue
			}
			if strings.HasPrefix(code[i:], "}}") {
				return i
			}
		}
	}
	return -1
}

// endOfString returns the index of the quote that ends the string which begins at start.
func endOfString(code string, start int) int {
	raw := start > 0 && (code[start-1] == 'r' || code[start-1] == 'R')
	for i := start + 1; i < len(code); i++ {
		switch {
		case code[i] == '\\' && !raw:
			i++
		case code[i] == code[start]:
			return i
		}
	}
	return len(code)
}
