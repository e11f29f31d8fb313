package expression

// Type is the type of a fact.
type Type string

// The types.
const (
	Bool    Type = "bool"
	Int     Type = "int"
	Double  Type = "double"
	String  Type = "string"
	Time    Type = "timestamp"
	Strings Type = "list(string)"
	Dynamic Type = "dyn" // anything that JSON can say
)

// Field declares a fact, so that rules are checked before they are asked.
type Field struct {
	Name string
	Type Type
	Doc  string
}

// Schema declares what rules about a system may look at: system.NAME and member.NAME. member.id is always there.
type Schema struct {
	System []Field
	Member []Field
	// Open schemas let rules ask for facts that are not declared; such facts are dynamic.
	Open bool
	// Fence schemas are of what turns machines off: they have answer, and of a node its providerID and addresses.
	Fence bool
}
