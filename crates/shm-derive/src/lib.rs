//! The derive of `shm::Shareable`, the marker of types that may lie in memory that another process writes.
//!
//! **What it is for.** It turns the promises of that unsafe trait into compile-time checks, field by field.
//!
//! **What it must never do.** Accept something because it looks right: what it cannot check, it refuses.
//!
//! **Where to start reading.** [`derive_shareable`] is the only entry; `check` says what is refused and why.
#![forbid(unsafe_code)]

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Result, parse_macro_input, parse_quote};

/// Implements `shm::Shareable` for a `#[repr(C)]` or `#[repr(transparent)]` struct of shareable fields
/// without padding.
///
/// Refused: enums and unions (a peer may write any bit pattern), structs without a fixed layout, packed
/// structs, structs with padding, fields that are not shareable.
#[proc_macro_derive(Shareable)]
pub fn derive_shareable(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(mut input: DeriveInput) -> Result<TokenStream> {
    check_repr(&input)?;
    let fields = fields_of(&input)?;
    let types: Vec<_> = fields.iter().map(|field| field.ty.clone()).collect();

    // For a struct with parameters the promise is a bound; without, it is an assertion that points at the
    // field.
    for parameter in input.generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(::shm::Shareable));
    }
    let name = &input.ident;
    let (impl_generics, type_generics, where_clause) = input.generics.split_for_impl();
    let field_checks = types.iter().map(|ty| {
        quote_spanned! {ty.span()=>
            {
                const fn must_be_shareable<__T: ::shm::Shareable + ?Sized>() {}
                must_be_shareable::<#ty>();
            }
        }
    });
    let checks = quote! {
        #(#field_checks)*
        ::shm::shareable::assert_no_padding(
            ::core::mem::size_of::<Self>(),
            0 #(+ ::core::mem::size_of::<#types>())*,
        );
    };
    // A struct without parameters is checked where it is defined, by naming the constant; a generic one when
    // a reference to it is made, because only then its fields are known.
    let check_now = input.generics.params.is_empty().then(|| {
        quote! { const _: () = <#name as ::shm::Shareable>::CHECKED; }
    });
    Ok(quote! {
        // SAFETY: the layout is fixed, every field is shareable and there is no padding: the constant checks
        // it.
        unsafe impl #impl_generics ::shm::Shareable for #name #type_generics #where_clause {
            const CHECKED: () = { #checks };
        }
        #check_now
    })
}

fn fields_of(input: &DeriveInput) -> Result<&Fields> {
    match &input.data {
        Data::Struct(data) => Ok(&data.fields),
        Data::Enum(data) => Err(Error::new(
            data.enum_token.span(),
            "an enum cannot be Shareable: a peer may write a value that is no variant; keep an atomic integer and check it",
        )),
        Data::Union(data) => Err(Error::new(data.union_token.span(), "a union cannot be Shareable")),
    }
}

fn check_repr(input: &DeriveInput) -> Result<()> {
    let mut fixed = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        fixed |= fixes_layout(attribute)?;
    }
    if fixed {
        return Ok(());
    }
    Err(Error::new(
        input.ident.span(),
        "a Shareable struct needs #[repr(C)]: without it the compiler may lay it out differently in another program",
    ))
}

fn fixes_layout(attribute: &Attribute) -> Result<bool> {
    let mut fixed = false;
    attribute.parse_nested_meta(|meta| {
        if meta.path.is_ident("C") || meta.path.is_ident("transparent") {
            fixed = true;
        } else if meta.path.is_ident("packed") {
            return Err(meta.error("a Shareable struct cannot be packed: its atomics must be aligned"));
        } else if meta.input.peek(syn::token::Paren) {
            // align(N): its argument has to be consumed.
            let content;
            syn::parenthesized!(content in meta.input);
            content.parse::<TokenStream>()?;
        }
        Ok(())
    })?;
    Ok(fixed)
}
