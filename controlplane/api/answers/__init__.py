"""What is answered, one module a subject: serializers over the rows of queries and commands, and so the schema too."""
